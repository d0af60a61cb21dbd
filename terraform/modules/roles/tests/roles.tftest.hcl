# `terraform test` in this module: with a mocked provider, so nothing is made and no account is asked.

mock_provider "aws" {
  mock_resource "aws_iam_role" {
    defaults = {
      arn = "arn:aws:iam::111122223333:role/any"
    }
  }
}

variables {
  prefix = "prod"
  role_policy_arns = {
    inbound   = "arn:aws:iam::111122223333:policy/prod-inbound"
    scheduler = "arn:aws:iam::111122223333:policy/prod-scheduler"
    hsc       = "arn:aws:iam::111122223333:policy/prod-hsc"
  }
}

run "pod_identity" {
  variables {
    cluster_name = "main"
  }

  assert {
    condition     = output.role_names == { all = "prod-all" } && output.role_arns == { all = "arn:aws:iam::111122223333:role/any" }
    error_message = "The chart's pods have another role."
  }

  assert {
    condition     = toset(values(aws_iam_role_policy_attachment.server)[*].policy_arn) == toset(values(var.role_policy_arns))
    error_message = "The role of all has not the policies of all."
  }

  assert {
    condition = jsondecode(aws_iam_role.server["all"].assume_role_policy).Statement == [{
      Sid       = "PodIdentity"
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = { StringEquals = { "aws:RequestTag/kubernetes-namespace" = "kinesin", "aws:RequestTag/kubernetes-service-account" = ["kinesin"] } }
    }]
    error_message = "Others than the pods of the chart may take the role."
  }

  assert {
    condition = [for a in aws_eks_pod_identity_association.server : [a.cluster_name, a.namespace, a.service_account, a.role_arn]] == [
    ["main", "kinesin", "kinesin", "arn:aws:iam::111122223333:role/any"]]
    error_message = "The service account is not associated with its role."
  }
}

run "service_accounts_by_oidc" {
  variables {
    oidc_provider_arn = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123"
    namespace         = "jobs"
    service_accounts  = { inbound = ["front", "import"], hsc = ["hsc"] }
    iam_path          = "/kinesin/"
  }

  assert {
    condition = jsondecode(aws_iam_role.server["inbound"].assume_role_policy).Statement == [{
      Sid       = "ServiceAccounts"
      Effect    = "Allow"
      Principal = { Federated = var.oidc_provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = { StringEquals = {
        "oidc.eks.eu-west-1.amazonaws.com/id/0123:aud" = "sts.amazonaws.com"
        "oidc.eks.eu-west-1.amazonaws.com/id/0123:sub" = ["system:serviceaccount:jobs:front", "system:serviceaccount:jobs:import"]
      } }
    }]
    error_message = "Others than the two service accounts may take the role."
  }

  assert {
    condition = { for key, a in aws_iam_role_policy_attachment.server : key => a.policy_arn } == {
      inbound-inbound = "arn:aws:iam::111122223333:policy/prod-inbound", hsc-hsc = "arn:aws:iam::111122223333:policy/prod-hsc"
    }
    error_message = "A role has another policy than its own."
  }

  assert {
    condition     = length(aws_eks_pod_identity_association.server) == 0
    error_message = "There are associations that nobody asked for."
  }
}

# From the one to the other, or both for clusters of both kinds.
run "both" {
  variables {
    oidc_provider_arn = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123"
    cluster_name      = "main"
  }

  assert {
    condition     = [for s in jsondecode(aws_iam_role.server["all"].assume_role_policy).Statement : s.Sid] == ["ServiceAccounts", "PodIdentity"]
    error_message = "The role does not trust both."
  }
}

run "nothing" {
  variables {
    create           = false
    cluster_name     = "main"
    role_policy_arns = {}
  }

  assert {
    condition = length(merge(aws_iam_role.server, aws_iam_role_policy_attachment.server, aws_eks_pod_identity_association.server)) + length(merge(
    output.role_arns, output.role_names, output.pod_identity_association_ids)) == 0
    error_message = "Something is made."
  }
}

run "policies_that_core_did_not_make" {
  command = plan

  variables {
    role_policy_arns = {}
  }

  expect_failures = [var.role_policy_arns]
}

run "a_role_that_there_is_not" {
  command = plan

  variables {
    service_accounts = { dispatcher = ["kinesin"] }
  }

  expect_failures = [var.service_accounts]
}

run "a_role_for_nobody" {
  command = plan

  variables {
    service_accounts = { all = [] }
  }

  expect_failures = [var.service_accounts]
}

run "a_service_account_with_two_roles" {
  command = plan

  variables {
    service_accounts = { inbound = ["kinesin"], hsc = ["kinesin"] }
  }

  expect_failures = [var.service_accounts]
}
