"""A vault in an S3-compatible bucket, reached through obstore (the extra `s3`).

`desk.BucketDesk` implements `ports.vault_desk.VaultDesk`; in front of it `files.mirror.MirrorVault` makes
it a `ports.vault.Vault`. Blocks and manifests have the very format that a directory vault has.
"""
