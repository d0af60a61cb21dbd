output "name" {
  description = "Name of the lambda, once it is registered: servers know it within seconds."
  value       = var.create ? var.name : null
  depends_on  = [aws_dynamodb_table_item.registration, aws_sqs_queue.priority, aws_sqs_queue.dlq]
}

output "queues" {
  description = "Name, URL and ARN of the queue of each priority."
  value       = { for priority, queue in aws_sqs_queue.priority : priority => { name = queue.name, url = queue.id, arn = queue.arn } }
}

output "dlqs" {
  description = "Name, URL and ARN of the dead-letter queue of each priority; empty for managed lambdas, whose dead letters `kinesin list --state dead` has."
  value       = { for priority, queue in aws_sqs_queue.dlq : priority => { name = queue.name, url = queue.id, arn = queue.arn } }
}

output "worker_policy_arn" {
  description = "ARN of the IAM policy of a consumer of a deliver lambda; null for managed lambdas, whose workers need nothing of AWS, and without `iam_policies`."
  value       = one(aws_iam_policy.worker[*].arn)
}

output "worker_policy_document" {
  description = "The same policy as JSON; null for managed lambdas."
  value       = local.worker_document
}

output "sender_policy_arn" {
  description = "ARN of the IAM policy of a program that sends into the inbound queue itself (`sdk/sqsinbound`); clients of servers need nothing of AWS. Null without `iam_policies`."
  value       = one(aws_iam_policy.sender[*].arn)
}

output "sender_policy_document" {
  description = "The same policy as JSON."
  value       = local.sender_document
}

output "alarm_arns" {
  description = "ARNs of the alarms, by name."
  value       = { for alarm in concat(values(aws_cloudwatch_metric_alarm.age), values(aws_cloudwatch_metric_alarm.dlq)) : alarm.alarm_name => alarm.arn }
}
