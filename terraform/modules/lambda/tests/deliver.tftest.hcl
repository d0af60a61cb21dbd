# `terraform test` in this module: with a mocked provider, so nothing is made and no account is asked.

mock_provider "aws" {
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

  mock_data "aws_caller_identity" {
    defaults = {
      account_id = "111122223333"
    }
  }
}

variables {
  core = {
    prefix            = "prod"
    control_table     = "prod-control"
    inbound_queue_arn = "arn:aws:sqs:eu-west-1:111122223333:prod-inbound"
  }
  name = "invoices"
}

run "deliver" {
  variables {
    mode                                = "deliver"
    priorities                          = ["normal"]
    consumer_visibility_timeout_seconds = 120
    consumer_principals                 = ["arn:aws:iam::444455556666:role/billing"]
  }

  assert {
    condition     = output.dlqs["normal"].name == "prod-invoices-normal-dlq" && aws_sqs_queue.priority["normal"].visibility_timeout_seconds == 120
    error_message = "The queue has no dead-letter queue of its name, or another visibility timeout."
  }

  assert {
    condition     = alltrue([for document in [aws_sqs_queue_policy.priority["normal"].policy, output.worker_policy_document] : strcontains(document, "sqs:GetQueueAttributes")])
    error_message = "AWS Lambda makes no event source mapping of a queue whose attributes it may not read."
  }

  assert {
    condition     = strcontains(aws_sqs_queue_policy.priority["normal"].policy, "444455556666") && strcontains(output.worker_policy_document, "sqs:DeleteMessage") && !strcontains(output.worker_policy_document, "sqs:SendMessage")
    error_message = "Consumers may not do what they have to, or more."
  }
}
