"""Where devices are named, where torch takes them, and how they get from one to the other."""
