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
  prefix = "prod"
}

run "provisioned" {
  variables {
    billing_mode = "PROVISIONED"
    capacity     = { tasks = { write = { min = 7, max = 70 } } }
  }

  assert {
    condition     = length(aws_appautoscaling_target.capacity) == 10 && length(aws_appautoscaling_policy.capacity) == 10
    error_message = "Not every table and index is scaled, for reads and for writes."
  }

  assert {
    condition     = aws_dynamodb_table.tasks[0].write_capacity == 7 && aws_appautoscaling_target.capacity["tasks-write"].max_capacity == 70
    error_message = "The capacity is not the one that was asked for."
  }

  assert {
    condition     = aws_appautoscaling_target.capacity["tasks-read"].max_capacity == 1000 && aws_dynamodb_table.simple["control"].write_capacity == 5
    error_message = "What was not asked for has not what it has otherwise."
  }

  assert {
    condition     = aws_appautoscaling_target.capacity["tasks_dead-read"].scalable_dimension == "dynamodb:index:ReadCapacityUnits"
    error_message = "The index is not scaled as one."
  }
}
