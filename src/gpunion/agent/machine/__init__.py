"""What the machine is and has: GPUs, disks, images, packages."""
