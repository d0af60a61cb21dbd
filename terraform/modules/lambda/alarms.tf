locals {
  # Servers send deliveries up to 900 s ahead, and the age of a message counts from then on.
  age_alarm_preset  = local.deliver ? max(1800, 1200 + var.consumer_visibility_timeout_seconds) : 300
  age_alarm_seconds = var.alarm_thresholds.age_seconds == null ? local.age_alarm_preset : var.alarm_thresholds.age_seconds
}

resource "aws_cloudwatch_metric_alarm" "age" {
  for_each = var.alarms ? aws_sqs_queue.priority : {}

  alarm_name          = "${each.value.name}-age"
  alarm_description   = local.deliver ? "Nobody reads what was delivered: does the consumer of this queue run? What it has not read after ${var.consumer_message_retention_seconds} s is gone." : "Due tasks wait for workers: do enough of lambda ${var.name} run?"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateAgeOfOldestMessage"
  dimensions          = { QueueName = each.value.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  comparison_operator = "GreaterThanThreshold"
  threshold           = local.age_alarm_seconds
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "dlq" {
  for_each = var.alarms ? aws_sqs_queue.dlq : {}

  alarm_name          = "${each.value.name}-not-empty"
  alarm_description   = "Messages were received ${var.consumer_receives_max} times and never deleted: put the consumer right, then start a message move task."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = each.value.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.alarm_thresholds.dlq_messages
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_actions
  ok_actions          = var.alarm_actions
  tags                = local.tags
}
