"""A run on a shared cluster: asked to stop, watched for a hang, on nodes that were looked at before."""
