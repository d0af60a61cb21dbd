# An installation as a platform team has it: provisioned capacity, backups, alarms to an SNS topic, the role of the pods, and
# lambdas by a map, to which a product team adds a line.
#
# All of it is in one state here. Teams with pipelines of their own have their lambdas in states of their own, with the output lambdas
# of this one as core.

provider "aws" {
  default_tags {
    tags = { service = "kinesin" }
  }
}

resource "aws_sns_topic" "alarms" {
  name = "${var.prefix}-alarms"
}

module "core" {
  source = "../../modules/core"

  prefix                   = var.prefix
  billing_mode             = "PROVISIONED"
  capacity                 = var.capacity
  deletion_protection      = var.deletion_protection
  kms_key_arn              = var.kms_key_arn
  iam_path                 = "/kinesin/"
  server_principals        = values(module.roles.role_arns)
  operator_principals      = var.operator_principals
  service_account_role_arn = var.oidc_provider_arn == null ? null : module.roles.role_arns["all"]
  alarm_actions            = [aws_sns_topic.alarms.arn]
  tags                     = { team = "platform" }
}

# The chart has one service account for all pods. With an OIDC provider its role is for IAM roles for service accounts, and goes into
# helm_values, as the annotation that EKS looks for; with a cluster's name it is associated by EKS Pod Identity.
module "roles" {
  source = "../../modules/roles"

  prefix            = var.prefix
  role_policy_arns  = module.core.role_policy_arns
  service_accounts  = { all = [var.service_account] }
  namespace         = var.namespace
  oidc_provider_arn = var.oidc_provider_arn
  cluster_name      = var.cluster_name
  iam_path          = "/kinesin/"
  tags              = { team = "platform" }
}

module "lambda" {
  source   = "../../modules/lambda"
  for_each = var.lambdas

  core                                = module.core.lambdas
  name                                = each.key
  mode                                = try(each.value.mode, null)
  priorities                          = try(each.value.priorities, null)
  shards                              = try(each.value.shards, null)
  max_attempts                        = try(each.value.max_attempts, null)
  timeout_seconds                     = try(each.value.timeout_seconds, null)
  backoff_seconds                     = try(each.value.backoff_seconds, null)
  retention_seconds                   = try(each.value.retention_seconds, null)
  consumer_visibility_timeout_seconds = try(each.value.consumer_visibility_timeout_seconds, null)
  consumer_message_retention_seconds  = try(each.value.consumer_message_retention_seconds, null)
  consumer_receives_max               = try(each.value.consumer_receives_max, null)
  sender_principals                   = try(each.value.sender_principals, null)
  consumer_principals                 = try(each.value.consumer_principals, null)
  iam_path                            = "/kinesin/"
  alarm_actions                       = [aws_sns_topic.alarms.arn]
  alarm_thresholds                    = try(each.value.alarm_thresholds, null)
  tags                                = { team = each.value.team }
}
