"""What is known of torch, torchax and the libraries around them: tables that never see a tree."""
