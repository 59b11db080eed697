"""Sparse attention decode in CUDA C++, its peers and its workloads, for the artifacts that time it."""
