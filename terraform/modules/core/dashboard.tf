# A page with all that CloudWatch knows of an installation: its queues, its tables, and its dead-letter queues. The dashboards of
# deploy/grafana have what only servers know, first of all how late tasks start.

locals {
  # Queues of lambdas are found by their names, since they are made elsewhere: by the words of the prefix, as CloudWatch has them.
  # So another installation whose prefix has the same words is on the page, too.
  queue_words = join(" ", [for word in regexall("[a-zA-Z0-9]+", var.prefix) : "QueueName=${word}"])
  searched = {
    age  = "SEARCH('{AWS/SQS,QueueName} MetricName=\"ApproximateAgeOfOldestMessage\" ${local.queue_words} NOT QueueName=\"${var.prefix}-inbound\" NOT QueueName=dlq', 'Maximum', 60)"
    wait = "SEARCH('{AWS/SQS,QueueName} MetricName=\"ApproximateNumberOfMessagesVisible\" ${local.queue_words} NOT QueueName=\"${var.prefix}-inbound\" NOT QueueName=dlq', 'Maximum', 60)"
    dead = "SEARCH('{AWS/SQS,QueueName} MetricName=\"ApproximateNumberOfMessagesVisible\" ${local.queue_words} QueueName=dlq', 'Maximum', 60)"
  }

  inbound_metric = { for metric in ["ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible", "NumberOfMessagesSent", "NumberOfMessagesDeleted"] :
  metric => ["AWS/SQS", metric, "QueueName", "${var.prefix}-inbound"] }

  # By title: what a plot of the tables shows, and how.
  table_plots = {
    "Read units per minute"  = { stat = "Sum", metrics = ["ConsumedReadCapacityUnits"] }
    "Write units per minute" = { stat = "Sum", metrics = ["ConsumedWriteCapacityUnits"] }
    "Throttled requests"     = { stat = "Sum", metrics = ["ReadThrottleEvents", "WriteThrottleEvents"] }
  }

  # Three plots a row, each 8 of the page's 24 columns wide and 6 rows high.
  plots = concat([
    {
      title   = "Inbound queue: age of the oldest message, seconds"
      stat    = "Maximum"
      metrics = [local.inbound_metric["ApproximateAgeOfOldestMessage"]]
    },
    {
      title   = "Inbound queue: messages that wait"
      stat    = "Maximum"
      metrics = [local.inbound_metric["ApproximateNumberOfMessagesVisible"]]
    },
    {
      title   = "Inbound queue: messages per minute, in and out"
      stat    = "Sum"
      metrics = [local.inbound_metric["NumberOfMessagesSent"], local.inbound_metric["NumberOfMessagesDeleted"]]
    },
    { title = "Queues of lambdas: age of the oldest message, seconds", stat = "Maximum", metrics = [[{ expression = local.searched.age, id = "age" }]] },
    { title = "Queues of lambdas: messages that wait", stat = "Maximum", metrics = [[{ expression = local.searched.wait, id = "wait" }]] },
    { title = "Dead-letter queues: messages", stat = "Maximum", metrics = [[{ expression = local.searched.dead, id = "dead" }]] },
    ], [
    for title, plot in local.table_plots : {
      title   = "Tables: ${lower(title)}"
      stat    = plot.stat
      metrics = concat([for metric in plot.metrics : [for table in values(local.tables) : ["AWS/DynamoDB", metric, "TableName", table.name]]]...)
    }
  ])

  alarms_on_page = concat(aws_cloudwatch_metric_alarm.inbound_age[*].arn, aws_cloudwatch_metric_alarm.inbound_dlq[*].arn, values(aws_cloudwatch_metric_alarm.throttles)[*].arn)

  dashboard_body = {
    start          = "-PT3H"
    periodOverride = "inherit"
    widgets = concat(
      [for arns in [local.alarms_on_page] : { type = "alarm", x = 0, y = 18, width = 24, height = 4, properties = { title = "Alarms", alarms = arns } } if length(arns) > 0],
      [for i, plot in local.plots : {
        type       = "metric"
        x          = i % 3 * 8
        y          = floor(i / 3) * 6
        width      = 8
        height     = 6
        properties = { title = plot.title, view = "timeSeries", region = local.table_region, stat = plot.stat, period = 60, metrics = plot.metrics, yAxis = { left = { min = 0 } } }
      }],
    )
  }
}

resource "aws_cloudwatch_dashboard" "installation" {
  count = var.create && var.dashboard ? 1 : 0

  dashboard_name = "${var.prefix}-kinesin"
  dashboard_body = jsonencode(local.dashboard_body)
}
