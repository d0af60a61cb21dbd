# Crons and the objective of a lambda; with a mocked provider, as all tests here.

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
  name = "receipts"
}

run "nothing" {
  command = plan

  assert {
    condition     = !contains(keys(local.registration), "crons") && !contains(keys(local.registration), "objective")
    error_message = "The registration declares what nobody gave."
  }
}

run "crons" {
  command = plan

  variables {
    crons = {
      nightly = {
        schedule = "30 2 * * *"
        zone     = "Europe/Berlin"
        payload  = jsonencode({ at = "{{nominal}}" })
        tags     = { kind = "night" }
        priority = "low"
        start    = "2027-01-31T09:00:00+01:00"
        end      = "2028-01-31T09:00:00Z"

        catch_up                = "all"
        catch_up_max            = 5
        catch_up_within_seconds = 0.3009
      }
      sync = { schedule = "@every 90s", jitter_seconds = 1.5, overlap = "queue", gap = "skip", fold = "both", failures_max = 3 }
      six  = { schedule = "0 30 2 * * MON-FRI" }
      rule = { schedule = "DTSTART:20270131T090000 FREQ=WEEKLY;INTERVAL=2" }
      word = { schedule = "@daily" }
      H    = { schedule = "H H * * *" }
    }
  }

  assert {
    condition     = jsonencode(local.registration.crons.sync) == "{\"failures_max\":3,\"fold\":\"both\",\"gap\":\"skip\",\"jitter\":\"1.5s\",\"overlap\":\"queue\",\"schedule\":\"@every 90s\"}"
    error_message = "The registration has other settings of a cron, or some that nobody gave."
  }

  assert {
    condition     = local.registration.crons.nightly.catch_up_within == "0.3s" && local.registration.crons.nightly.payload_text == "{\"at\":\"{{nominal}}\"}" && local.registration.crons.nightly.tags.kind == "night"
    error_message = "The registration has other settings of nightly."
  }

  assert {
    condition     = length(local.registration.crons) == 6
    error_message = "A cron is missing."
  }
}

run "objective" {
  command = plan

  variables {
    objective = { within_seconds = 0.5, objective = 99.9, window_hours = 168 }
  }

  assert {
    condition     = jsonencode(local.registration.objective) == "{\"objective\":99.9,\"window\":\"168h\",\"within\":\"0.5s\"}"
    error_message = "The registration has another objective."
  }
}

run "an_objective_of_all" {
  command = plan

  variables {
    objective = { within_seconds = 5, objective = 100 }
  }

  expect_failures = [var.objective]
}

run "no_expression" {
  command = plan

  variables {
    crons = { nightly = { schedule = "30 2 * *" } }
  }

  expect_failures = [var.crons]
}

run "an_end_before_the_start" {
  command = plan

  variables {
    crons = { nightly = { schedule = "@daily", start = "2027-01-31T09:00:00Z", end = "2027-01-31T09:30:00+01:00" } }
  }

  expect_failures = [var.crons]
}

run "too_much" {
  command = plan

  variables {
    crons = { for i in range(6) : "c${i}" => { schedule = "@daily", payload = join("", [for j in range(650) : "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"]) } }
  }

  expect_failures = [aws_dynamodb_table_item.registration]
}
