# `terraform test` in this module: with a mocked provider, so nothing is made and no account is asked.

mock_provider "aws" {
  mock_resource "aws_dynamodb_table" {
    defaults = {
      arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/any"
    }
  }

  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-west-1:111122223333:any"
      id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/any"
    }
  }

  mock_resource "aws_iam_policy" {
    defaults = {
      arn = "arn:aws:iam::111122223333:policy/any"
    }
  }

  mock_resource "aws_cloudwatch_metric_alarm" {
    defaults = {
      arn = "arn:aws:cloudwatch:eu-west-1:111122223333:alarm:any"
    }
  }

  mock_data "aws_region" {
    defaults = {
      region = "eu-west-1"
    }
  }
}

variables {
  prefix = "a-prefix-of-20-chars"
}

run "key_and_the_longest_names" {
  variables {
    kms_key_arn           = "arn:aws:kms:eu-west-1:111122223333:key/12345678-1234-1234-1234-123456789012"
    servers_create_queues = true
  }

  assert {
    condition     = alltrue([for table in aws_dynamodb_table.simple : table.server_side_encryption[0].kms_key_arn == var.kms_key_arn])
    error_message = "A table is not under the key."
  }

  assert {
    condition     = aws_sqs_queue.inbound[0].kms_master_key_id == var.kms_key_arn && aws_sqs_queue.inbound_dlq[0].kms_master_key_id == var.kms_key_arn
    error_message = "A queue is not under the key."
  }

  assert {
    condition     = alltrue([for role, document in output.role_policy_documents : length(document) + 20 * 10 < 6144])
    error_message = "A policy is longer than the 6144 characters that IAM takes."
  }
}
