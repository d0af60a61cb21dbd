variable "create" {
  description = "Make the roles. With false the module makes nothing, and all outputs are empty."
  type        = bool
  default     = true
  nullable    = false
}

variable "prefix" {
  description = "The prefix of the installation: a role is named `PREFIX-` and its key in `service_accounts`, by which the queues let it in unless `server_principals` of the module `core` names others."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,20}$", var.prefix))
    error_message = "Want a prefix of 1 to 20 characters of a-z, A-Z, 0-9, - and _."
  }
}

variable "role_policy_arns" {
  description = "The policies: output `role_policy_arns` of the module `core`."
  type        = map(string)
  nullable    = false

  validation {
    condition     = !var.create || length(setsubtract(["inbound", "scheduler", "hsc"], keys(var.role_policy_arns))) == 0
    error_message = "Want as role_policy_arns the output of the module core, which has inbound, scheduler and hsc; with iam_policies = false it has none."
  }
}

variable "service_accounts" {
  description = "The roles to make, and the Kubernetes service accounts that may take each: `all` is for processes with all roles of `kinesin serve`, as in the chart; `inbound`, `scheduler` (with dispatcher) and `hsc` are for separate processes."
  type        = map(list(string))
  default     = { all = ["kinesin"] }
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.service_accounts), ["all", "inbound", "scheduler", "hsc"])) == 0
    error_message = "Want service_accounts of all, inbound, scheduler or hsc; there is no ${join(", ", setsubtract(keys(var.service_accounts), ["all", "inbound", "scheduler", "hsc"]))}."
  }

  validation {
    condition     = alltrue([for names in values(var.service_accounts) : try(length(names) > 0 && alltrue([for name in names : can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", name))]), false)])
    error_message = "Want for each role at least one name of a service account, such as kinesin."
  }

  validation {
    condition     = length(distinct(flatten(values(var.service_accounts)))) == length(flatten(values(var.service_accounts)))
    error_message = "Want each service account in one role: EKS gives its pods no second one. For several roles in one process take all."
  }
}

variable "namespace" {
  description = "The namespace of the service accounts: that of the Helm release."
  type        = string
  default     = "kinesin"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "Want a namespace of 1 to 63 characters of a-z, 0-9 and -, such as kinesin."
  }
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider in IAM: the roles trust it, for IAM roles for service accounts. Null: they do not."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_provider_arn == null || can(regex("^arn:[^:]+:iam::[0-9]{12}:oidc-provider/.+$", var.oidc_provider_arn))
    error_message = "Want an oidc_provider_arn such as arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123…"
  }
}

variable "cluster_name" {
  description = "Name of the EKS cluster, in which the module makes the associations of EKS Pod Identity. Null: it makes none. The roles trust EKS Pod Identity with a cluster, and also if there is no OIDC provider."
  type        = string
  default     = null
}

variable "iam_path" {
  description = "Path of the roles, up to 512 characters."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([!-~]{1,510}/)?$", var.iam_path))
    error_message = "Want an iam_path that begins and ends with a slash, of up to 512 characters, such as /kinesin/."
  }
}

variable "tags" {
  description = "Tags of the roles and associations, besides `kinesin:prefix` and the provider's `default_tags`."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = !anytrue([for key in keys(var.tags) : startswith(lower(key), "kinesin:") || startswith(lower(key), "aws:")])
    error_message = "Want tags whose keys do not begin with kinesin:, which the modules set, nor with aws:, which AWS does."
  }
}
