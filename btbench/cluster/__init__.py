"""What serves the requests: GPUs, models, replicas, and what they cost in time and memory."""
