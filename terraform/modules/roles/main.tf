# The roles that servers run with on EKS: who may take them, and the policies of core.

locals {
  tags     = merge(var.tags, { "kinesin:prefix" = var.prefix })
  accounts = var.create ? var.service_accounts : {}

  # arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123…
  issuers      = [for arn in compact([var.oidc_provider_arn]) : split(":oidc-provider/", arn)[1]]
  pod_identity = var.oidc_provider_arn == null || var.cluster_name != null

  attachments = merge([for role in keys(local.accounts) : {
    for policy in role == "all" ? ["inbound", "scheduler", "hsc"] : [role] : "${role}-${policy}" => { role = role, policy = policy }
  }]...)

  associations = merge([for role, accounts in local.accounts : { for account in accounts : "${role}-${account}" => { role = role, account = account } if var.cluster_name != null }]...)
}

resource "aws_iam_role" "server" {
  for_each = local.accounts

  name        = "${var.prefix}-${each.key}"
  path        = var.iam_path
  description = "kinesin serve --aws-prefix ${var.prefix}, roles: ${each.key}"
  tags        = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for issuer in local.issuers : {
        Sid       = "ServiceAccounts"
        Effect    = "Allow"
        Principal = { Federated = var.oidc_provider_arn }
        Action    = ["sts:AssumeRoleWithWebIdentity"]
        Condition = { StringEquals = {
          "${issuer}:aud" = "sts.amazonaws.com"
          "${issuer}:sub" = [for account in each.value : "system:serviceaccount:${var.namespace}:${account}"]
        } }
      }],
      # EKS sets these tags of the session, so that an association for another service account gives nobody the role.
      [for wanted in [local.pod_identity] : {
        Sid       = "PodIdentity"
        Effect    = "Allow"
        Principal = { Service = "pods.eks.amazonaws.com" }
        Action    = ["sts:AssumeRole", "sts:TagSession"]
        Condition = { StringEquals = {
          "aws:RequestTag/kubernetes-namespace"       = var.namespace
          "aws:RequestTag/kubernetes-service-account" = each.value
        } }
      } if wanted],
    )
  })
}

resource "aws_iam_role_policy_attachment" "server" {
  for_each = local.attachments

  role       = aws_iam_role.server[each.value.role].name
  policy_arn = var.role_policy_arns[each.value.policy]
}

resource "aws_eks_pod_identity_association" "server" {
  for_each = local.associations

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = each.value.account
  role_arn        = aws_iam_role.server[each.value.role].arn
  tags            = local.tags
}
