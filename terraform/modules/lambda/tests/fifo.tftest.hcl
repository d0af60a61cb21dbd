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

run "fifo" {
  variables {
    mode       = "deliver"
    priorities = ["normal"]
    fifo       = true
  }

  assert {
    condition     = output.queues["normal"].name == "prod-invoices-normal.fifo" && output.dlqs["normal"].name == "prod-invoices-normal-dlq.fifo" && aws_sqs_queue.priority["normal"].fifo_queue && aws_sqs_queue.dlq["normal"].fifo_queue
    error_message = "The queues are no FIFO queues, or have no such names."
  }

  assert {
    condition     = terraform_data.settings[0].input.fifo
    error_message = "Servers are not told."
  }
}

run "fifo_of_managed" {
  command = plan

  variables {
    fifo = true
  }

  expect_failures = [var.fifo]
}
