# An installation for a trial, and one lambda.

provider "aws" {}

module "core" {
  source = "../../modules/core"

  prefix                 = var.prefix
  server_principals      = var.server_principals
  deletion_protection    = false # so that `destroy` works
  point_in_time_recovery = false
  alarms                 = false
}

module "greet" {
  source = "../../modules/lambda"

  core   = module.core.lambdas
  name   = "greet"
  alarms = false
}
