"""The provider for Amazon SQS and others with its protocol, on the library aiobotocore (extra ``sqs``)."""
