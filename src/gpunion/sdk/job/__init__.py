"""What runs inside a guest's program: the standard library only, and nothing else of this project.

`from gpunion.sdk.job import training` is the convenient way. Behind it is a protocol of files that any
language can speak; `training`'s documentation has it.
"""
