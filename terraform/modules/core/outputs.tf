output "lambdas" {
  description = "Facts about this installation for the module `lambda`: pass them as `core`."
  value = !var.create ? null : {
    prefix            = var.prefix
    control_table     = aws_dynamodb_table.simple["control"].name
    inbound_queue_arn = aws_sqs_queue.inbound[0].arn
    kms_key_arn       = var.kms_key_arn

    other_kms_key_arns = var.other_kms_key_arns
    message_bytes_max  = var.message_bytes_max

    server_principals   = local.server_principals
    operator_principals = var.operator_principals
  }
}

output "prefix" {
  description = "The prefix, as in `kinesin serve --aws-prefix`."
  value       = var.create ? var.prefix : null
}

output "region" {
  description = "The region that everything is in, as in `AWS_REGION`."
  value       = var.create ? local.table_region : null
}

output "helm_values" {
  description = "Values of the chart `deploy/chart/kinesin` that say where tables and queues are: `terraform output -json helm_values > values.json`, then `helm install -f values.json`."
  value = !var.create ? null : merge(
    { store = "dynamodb", aws = { prefix = var.prefix, region = local.table_region } },
    { for arn in compact([var.service_account_role_arn]) : "serviceAccount" => { annotations = { "eks.amazonaws.com/role-arn" = arn } } },
  )
}

output "serve_environment" {
  description = "The environment of `kinesin serve` outside Kubernetes."
  value = !var.create ? null : {
    KINESIN_STORE      = "dynamodb"
    KINESIN_QUEUE      = "sqs"
    KINESIN_AWS_PREFIX = var.prefix
    AWS_REGION         = local.table_region
  }
}

output "table_names" {
  description = "Names of the tables, by what they are for: schedule, tasks, payloads, control."
  value       = { for name, table in local.tables : name => table.name }
}

output "table_arns" {
  description = "ARNs of the tables."
  value       = { for name, table in local.tables : name => table.arn }
}

output "inbound_queue" {
  description = "Name, URL and ARN of the inbound queue, for `sdk/sqsinbound`."
  value       = one([for queue in aws_sqs_queue.inbound : { name = queue.name, url = queue.id, arn = queue.arn }])
}

output "inbound_dlq" {
  description = "Name, URL and ARN of the dead-letter queue behind the inbound queue."
  value       = one([for queue in aws_sqs_queue.inbound_dlq : { name = queue.name, url = queue.id, arn = queue.arn }])
}

output "role_policy_arns" {
  description = "ARNs of the IAM policies of the roles inbound, scheduler (with dispatcher) and hsc. A process with all roles needs all three. Empty without `iam_policies`."
  value       = { for role, policy in aws_iam_policy.role : role => policy.arn }
}

output "role_policy_documents" {
  description = "The same policies as JSON."
  value       = local.role_documents
}

output "registrar_policy_arn" {
  description = "ARN of the IAM policy for pipelines that call the module `lambda`: it lets them write registrations and nothing else of the tables. Null without `iam_policies`."
  value       = one(aws_iam_policy.registrar[*].arn)
}

output "registrar_policy_document" {
  description = "The same policy as JSON."
  value       = local.registrar_document
}

output "alarm_arns" {
  description = "ARNs of the alarms, by name."
  value = { for alarm in concat(aws_cloudwatch_metric_alarm.inbound_age, aws_cloudwatch_metric_alarm.inbound_dlq, values(aws_cloudwatch_metric_alarm.throttles)) :
  alarm.alarm_name => alarm.arn }
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without `dashboard`."
  value       = one(aws_cloudwatch_dashboard.installation[*].dashboard_name)
}
