"""What a coordinator says and does where its database has lost something."""
