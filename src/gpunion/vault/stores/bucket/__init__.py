"""An S3-compatible bucket as a store."""
