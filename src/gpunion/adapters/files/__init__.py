"""A vault in a directory (a local disk or NFS), and the ways into and out of any vault.

`directory.DirectoryVault(root)` implements `ports.vault.Vault`;
`ship.ship_directory` and `restore.restore_directory` work on any vault.
"""
