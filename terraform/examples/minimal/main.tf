# An installation for a trial, and one lambda.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.8, < 7.0"
    }
  }
}

provider "aws" {}

variable "prefix" {
  description = "Begins the names of everything."
  type        = string
  default     = "demo"
}

module "core" {
  source = "../../modules/core"

  prefix                 = var.prefix
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

output "helm_values" {
  description = "For `helm install -f`."
  value       = module.core.helm_values
}

output "serve_environment" {
  description = "For `kinesin serve`."
  value       = module.core.serve_environment
}
