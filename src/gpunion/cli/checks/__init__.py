"""What `gpunion doctor` looks at. A check is a function that looks, changes nothing for good, and answers a
`Finding` that names the command which mends what is wrong."""
