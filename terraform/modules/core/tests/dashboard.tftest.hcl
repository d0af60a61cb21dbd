# The CloudWatch dashboard; with a mocked provider, as all tests here.

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
  prefix = "shop-eu"
}

run "off" {
  assert {
    condition     = length(aws_cloudwatch_dashboard.installation) == 0 && output.dashboard_name == null
    error_message = "A dashboard that nobody asked for."
  }
}

run "on" {
  variables {
    dashboard = true
  }

  assert {
    condition     = output.dashboard_name == "shop-eu-kinesin"
    error_message = "The dashboard has another name."
  }

  # What CloudWatch wants of a body: widgets on a page of 24 columns, plots with a region, a statistic and metrics.
  assert {
    condition = alltrue([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets :
      contains(["metric", "alarm"], w.type) && w.x >= 0 && w.x + w.width <= 24 && w.height >= 1 && w.height <= 1000
    ])
    error_message = "A widget is not on the page."
  }

  assert {
    condition = alltrue([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets :
      w.properties.region == "eu-west-1" && w.properties.period == 60 && contains(["Sum", "Maximum"], w.properties.stat) && length(w.properties.metrics) > 0 if w.type == "metric"
    ])
    error_message = "A plot has no region, no statistic or no metrics."
  }

  # No two at one place.
  assert {
    condition     = length(distinct([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets : "${w.x},${w.y}"])) == 10
    error_message = "Widgets are missing, or lie on each other."
  }

  assert {
    condition = alltrue([for name in ["shop-eu-schedule", "shop-eu-tasks", "shop-eu-payloads", "shop-eu-control", "shop-eu-inbound"] : length([
      for metric in concat([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets : w.properties.metrics if w.type == "metric"]...) : metric
      if contains([for part in metric : part if can(tostring(part))], name)
    ]) >= 3])
    error_message = "A table or the inbound queue is not on the dashboard."
  }

  assert {
    condition     = length([for part in regexall("SEARCH\\('\\{AWS/SQS,QueueName\\} MetricName=\\\\\"[A-Za-z]+\\\\\" QueueName=shop QueueName=eu [^']*', 'Maximum', 60\\)", aws_cloudwatch_dashboard.installation[0].dashboard_body) : part]) == 3
    error_message = "The queues of lambdas are not searched for by the words of the prefix: ${aws_cloudwatch_dashboard.installation[0].dashboard_body}"
  }

  assert {
    condition     = length(one([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets : w.properties.alarms if w.type == "alarm"])) == 12
    error_message = "The alarms are not on the dashboard."
  }
}

run "without_alarms" {
  variables {
    dashboard = true
    alarms    = false
  }

  assert {
    condition     = !anytrue([for w in jsondecode(aws_cloudwatch_dashboard.installation[0].dashboard_body).widgets : w.type == "alarm"])
    error_message = "There are no alarms, and a widget for them."
  }
}
