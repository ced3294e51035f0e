"""AWS: instances of EC2 fleets and of Auto Scaling groups.

Only this package imports boto3, and only when a pool of AWS exists. It uses the SDK's own credentials.
"""
