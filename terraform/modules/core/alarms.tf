locals {
  alarmed = var.create && var.alarms
  throttled = !local.alarmed ? {} : merge(
    { for name, table in local.tables : name => { TableName = table.name } },
    { for name, index in local.tasks_indexes : "tasks-${name}" => { TableName = aws_dynamodb_table.tasks[0].name, GlobalSecondaryIndexName = name } },
  )
  throttles = merge([
    for name, dimensions in local.throttled : { for way in ["read", "write"] : "${name}-${way}" => { metric = "${title(way)}ThrottleEvents", dimensions = dimensions } }
  ]...)
}

resource "aws_cloudwatch_metric_alarm" "inbound_age" {
  count = local.alarmed ? 1 : 0

  alarm_name          = "${var.prefix}-inbound-age"
  alarm_description   = "Tasks wait in the inbound queue: do servers with the role inbound run, is --inbound-rate too low, or are the tables throttled? They are safe there for 14 days."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = aws_sqs_queue.inbound[0].name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_thresholds.inbound_age_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "inbound_dlq" {
  count = local.alarmed ? 1 : 0

  alarm_name          = "${var.prefix}-inbound-dlq"
  alarm_description   = "Messages were received from the inbound queue a thousand times and never taken to the store: read the logs of servers with the role inbound, then start a message move task."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.inbound_dlq[0].name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_thresholds.inbound_dlq_messages
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  for_each = local.throttles

  alarm_name          = "${var.prefix}-${each.key}-throttles"
  alarm_description   = "DynamoDB puts requests off for want of capacity, and tasks get late: more capacity, or more shards for the busiest lambda."
  namespace           = "AWS/DynamoDB"
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_thresholds.throttled_requests
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}
