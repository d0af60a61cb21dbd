# Each role of `kinesin serve` may do the following: the calls that it makes, on what it makes them on. A test
# records the calls of a run and holds the policies to them: all are allowed, and nothing is that no call
# needed, but for what the test names with its reason. IAM knows the statements of a batch as PartiQL…
# actions; a write that is alone goes as PutItem or DeleteItem, so most rows need both. No role deletes
# payloads: TTL does.

locals {
  # Lambdas, workers, members, rejected tasks and the secret of ids: every role keeps rows of its own here, by kind, which is the
  # table's hash key. Registrations are a kind that they only read: that is in the condition of what they may write. A condition, and
  # no Deny: a role that has the registrar's policy besides is to have its right. A row is always deleted alone.
  control_reads  = ["GetItem", "Query"]
  control_writes = ["PutItem", "DeleteItem", "PartiQLInsert", "PartiQLUpdate"]

  registrations = { "dynamodb:LeadingKeys" = ["registration"] }

  # ForAllValues holds when a request names no row at all. So each has this beside it: the request names one. AWS lists the key for all
  # actions that write rows, those of PartiQL too, and not for Scan.
  names_rows = { "dynamodb:LeadingKeys" = "false" }

  role_actions = {
    inbound = {
      schedule = ["GetItem", "BatchGetItem", "Query", "PutItem", "DeleteItem", "PartiQLInsert", "PartiQLDelete"]
      tasks    = ["GetItem", "BatchGetItem", "Scan", "PutItem", "PartiQLInsert", "PartiQLUpdate"]
      indexes  = ["dead"]
      payloads = ["GetItem", "PutItem", "UpdateItem", "PartiQLInsert"]
      queues   = concat(["SendMessage"], var.servers_create_queues ? ["CreateQueue"] : [])
      inbound  = ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"]
      dead     = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "StartMessageMoveTask", "ListMessageMoveTasks", "PurgeQueue"]
    }
    scheduler = {
      schedule = ["GetItem", "BatchGetItem", "Query", "PutItem", "DeleteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"]
      tasks    = ["GetItem", "BatchGetItem", "PutItem", "PartiQLInsert", "PartiQLUpdate"]
      indexes  = []
      payloads = ["GetItem", "UpdateItem"] # their expiry is put off when a task is 14 days overdue
      queues   = ["SendMessage"]
      inbound  = []
      dead     = []
    }
    hsc = {
      schedule = ["GetItem", "BatchGetItem", "PutItem", "DeleteItem", "PartiQLInsert", "PartiQLDelete"]
      tasks    = ["GetItem", "BatchGetItem", "PutItem", "PartiQLUpdate"]
      indexes  = []
      payloads = ["GetItem", "UpdateItem"]
      queues   = ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"]
      inbound  = []
      dead     = []
    }
  }

  # The key that tables and queues are under, and those that they were under or will be.
  kms_key_arns = distinct(compact(concat([var.kms_key_arn], var.other_kms_key_arns)))

  kms_queue_statements = [for keys in [distinct(concat(local.kms_key_arns, var.lambda_kms_key_arns))] : {
    Sid       = "KeysOfQueues"
    Effect    = "Allow"
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = keys
    Condition = { StringEquals = { "kms:ViaService" = "sqs.${local.sqs_region}.amazonaws.com" } }
  } if length(keys) > 0]

  # Those that AWS names for who reads and writes a table under a key of the customer's.
  kms_table_statements = [for keys in [local.kms_key_arns] : {
    Sid       = "KeysOfTables"
    Effect    = "Allow"
    Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    Resource  = keys
    Condition = { StringEquals = { "kms:ViaService" = "dynamodb.${local.table_region}.amazonaws.com" } }
  } if length(keys) > 0]

  role_documents = {
    for role, may in local.role_actions : role => jsonencode({
      Version = "2012-10-17"
      Statement = concat(
        # At its start each process compares tables and queues with what they have to be.
        [
          {
            Sid      = "CheckTables"
            Effect   = "Allow"
            Action   = ["dynamodb:DescribeTable"]
            Resource = [local.tables.schedule.arn, local.tables.tasks.arn, local.tables.payloads.arn, local.tables.control.arn]
          },
          {
            Sid      = "CheckExpiry"
            Effect   = "Allow"
            Action   = ["dynamodb:DescribeTimeToLive"]
            Resource = [local.tables.tasks.arn, local.tables.payloads.arn]
          },
          {
            Sid      = "CheckQueues"
            Effect   = "Allow"
            Action   = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]
            Resource = local.queues_arn
          },
        ],
        [for name in ["schedule", "tasks", "payloads"] : {
          Sid      = title(name)
          Effect   = "Allow"
          Action   = [for action in may[name] : "dynamodb:${action}"]
          Resource = local.tables[name].arn
        } if length(may[name]) > 0],
        [for indexes in [may.indexes] : {
          Sid      = "Indexes"
          Effect   = "Allow"
          Action   = ["dynamodb:Query"]
          Resource = [for index in indexes : "${local.tables.tasks.arn}/index/${index}"]
        } if length(indexes) > 0],
        [{
          Sid      = "Control"
          Effect   = "Allow"
          Action   = [for action in local.control_reads : "dynamodb:${action}"]
          Resource = local.tables.control.arn
          }, {
          Sid       = "ControlButRegistrations"
          Effect    = "Allow"
          Action    = [for action in local.control_writes : "dynamodb:${action}"]
          Resource  = local.tables.control.arn
          Condition = { "ForAllValues:StringNotEquals" = local.registrations, Null = local.names_rows }
          }, {
          Sid      = "Queues"
          Effect   = "Allow"
          Action   = [for action in may.queues : "sqs:${action}"]
          Resource = local.lambda_queues_arn
          }, {
          # PREFIX-*-* has it, and no role ever needs what is in it. So a role with all policies loses nothing by this.
          Sid      = "NotInboundDLQ"
          Effect   = "Deny"
          Action   = ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
          Resource = aws_sqs_queue.inbound_dlq[0].arn
        }],
        [for actions in [may.inbound] : {
          Sid      = "InboundQueue"
          Effect   = "Allow"
          Action   = [for action in actions : "sqs:${action}"]
          Resource = aws_sqs_queue.inbound[0].arn
        } if length(actions) > 0],
        # For `kinesin dead-letter`: the dead-letter queues of deliver lambdas.
        [for actions in [may.dead] : {
          Sid      = "DeadLetters"
          Effect   = "Allow"
          Action   = [for action in actions : "sqs:${action}"]
          Resource = local.dead_letter_queue_arns
        } if length(actions) > 0],
        # Lambdas whose target is a function of AWS Lambda: `kinesin serve --targets-functions` has the same list.
        [for arns in [var.target_function_arns] : {
          Sid      = "TargetFunctions"
          Effect   = "Allow"
          Action   = ["lambda:InvokeFunction"]
          Resource = arns
        } if role == "hsc" && length(arns) > 0],
        local.kms_table_statements,
        local.kms_queue_statements,
      )
    }) if var.create
  }

  # For the pipelines of teams that call the module lambda: rows of the kind registration, and no others.
  registrar_document = !var.create ? null : jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "Registrations"
        Effect    = "Allow"
        Action    = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
        Resource  = local.tables.control.arn
        Condition = { "ForAllValues:StringEquals" = local.registrations, Null = local.names_rows }
      }],
      local.kms_table_statements,
    )
  })
}

resource "aws_iam_policy" "role" {
  for_each = var.iam_policies ? local.role_documents : {}

  name        = "${var.prefix}-${each.key}"
  path        = var.iam_path
  description = "kinesin serve --aws-prefix ${var.prefix} --roles ${each.key == "scheduler" ? "scheduler,dispatcher" : each.key}"
  policy      = each.value
  tags        = local.tags
}

resource "aws_iam_policy" "registrar" {
  count = var.create && var.iam_policies ? 1 : 0

  name        = "${var.prefix}-registrar"
  path        = var.iam_path
  description = "Register lambdas of ${var.prefix} by the Terraform module lambda, besides making their queues, alarms and policies"
  policy      = local.registrar_document
  tags        = local.tags
}
