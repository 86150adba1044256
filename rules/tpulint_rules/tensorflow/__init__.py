"""TensorFlow on TPU."""
