# An installation as a platform team has it: provisioned capacity, backups, alarms to an SNS topic, a role for the pods, and
# lambdas by a map, to which a product team adds a line.
#
# All of it is in one state here. Teams with pipelines of their own have their lambdas in states of their own, with the output lambdas
# of this one as core.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.8, < 7.0"
    }
  }
}

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
  server_principals        = [aws_iam_role.servers.arn]
  operator_principals      = var.operator_principals
  service_account_role_arn = var.oidc_provider_arn == null ? null : aws_iam_role.servers.arn
  alarm_actions            = [aws_sns_topic.alarms.arn]
  tags                     = { team = "platform" }
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
