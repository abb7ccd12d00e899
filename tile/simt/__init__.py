"""What is true of any SIMT machine: which register, lane and warp holds which element of a tile."""
