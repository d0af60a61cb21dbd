# Tasks that are scheduled ahead wait here for the store; `kinesin aws setup --dry-run` has the same, and a
# test compares.

resource "aws_sqs_queue" "inbound_dlq" {
  count      = var.create ? 1 : 0
  depends_on = [aws_dynamodb_table.tasks]

  name                              = "${var.prefix}-inbound-dlq"
  message_retention_seconds         = 1209600
  max_message_size                  = var.message_bytes_max
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  tags                              = local.tags
}

resource "aws_sqs_queue" "inbound" {
  count = var.create ? 1 : 0

  name                              = "${var.prefix}-inbound"
  visibility_timeout_seconds        = 30
  message_retention_seconds         = 1209600
  max_message_size                  = var.message_bytes_max
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  tags                              = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.inbound_dlq[0].arn
    maxReceiveCount     = 1000
  })
}

resource "aws_sqs_queue_redrive_allow_policy" "inbound_dlq" {
  count = var.create ? 1 : 0

  queue_url = aws_sqs_queue.inbound_dlq[0].id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.inbound[0].arn]
  })
}

# Whoever is not named is denied by the queue itself, whatever the policies of his role allow. A Deny by NotPrincipal would have to name
# each session of a role; aws:PrincipalArn is the role's own ARN in all of its sessions. Calls that AWS makes as itself are left out:
# nothing here allows them, and a service's own work on a queue (moving what was received too often) is not to fail. Only messages are
# denied: who may change the queue can always change this policy, too.
locals {
  server_principals = distinct(concat(
    length(var.server_principals) > 0 ? var.server_principals : [for name in ["${var.prefix}-*", "*/${var.prefix}-*"] :
    "arn:${local.queue_arn[1]}:iam::${local.queue_arn[4]}:role/${name}"],
    compact([var.service_account_role_arn]),
  ))
  # An account is no principal of a call: its roles and users are.
  sender_principals = [for arn in var.sender_principals : replace(arn, "/:root$/", ":*")]

  receiving = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:PurgeQueue"]

  queues = merge(
    { for queue in aws_sqs_queue.inbound : "inbound" => {
      url      = queue.id
      arn      = queue.arn
      send     = concat(local.server_principals, var.operator_principals, local.sender_principals)
      receive  = concat(local.server_principals, var.operator_principals)
      accounts = var.sender_principals
    } },
    # SQS itself puts messages there, and people take them out.
    { for queue in aws_sqs_queue.inbound_dlq : "inbound_dlq" => {
      url      = queue.id
      arn      = queue.arn
      send     = var.operator_principals
      receive  = var.operator_principals
      accounts = []
    } },
  )
}

resource "aws_sqs_queue_policy" "tls" {
  for_each = local.queues

  queue_url = each.value.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "OnlyOverTLS"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = each.value.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      }],
      [for of in [{ sid = "OnlyNamedSenders", actions = ["sqs:SendMessage"], arns = each.value.send },
        { sid = "OnlyNamedReceivers", actions = local.receiving, arns = each.value.receive }] : {
        Sid       = of.sid
        Effect    = "Deny"
        Principal = "*"
        Action    = of.actions
        Resource  = each.value.arn
        Condition = merge({ Bool = { "aws:PrincipalIsAWSService" = "false" } }, { for arns in [of.arns] : "ArnNotLike" => { "aws:PrincipalArn" = arns } if length(arns) > 0 })
      }],
      [for principals in [each.value.accounts] : {
        Sid       = "Senders"
        Effect    = "Allow"
        Principal = { AWS = principals }
        Action    = ["sqs:GetQueueUrl", "sqs:SendMessage"]
        Resource  = each.value.arn
      } if length(principals) > 0],
    )
  })
}
