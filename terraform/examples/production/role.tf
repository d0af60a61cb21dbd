# The role of the pods. The chart has one service account for all of them, so it gets the policies of all roles of `kinesin serve`.
# With an OIDC provider it is for IAM roles for service accounts: its ARN goes into the output helm_values, as the annotation that
# EKS looks for. Without, it is for EKS Pod Identity, and wants an association: aws_eks_pod_identity_association, or
# aws eks create-pod-identity-association --cluster-name … --namespace … --service-account … --role-arn …

locals {
  # arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/0123…
  issuer = var.oidc_provider_arn == null ? null : split(":oidc-provider/", var.oidc_provider_arn)[1]

  trust = {
    pod_identity = {
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }
    service_account = {
      Principal = { Federated = var.oidc_provider_arn }
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Condition = { StringEquals = {
        "${coalesce(local.issuer, "none")}:aud" = "sts.amazonaws.com"
        "${coalesce(local.issuer, "none")}:sub" = "system:serviceaccount:${var.namespace}:${var.service_account}"
      } }
    }
  }
}

resource "aws_iam_role" "servers" {
  name        = "${var.prefix}-servers"
  path        = "/kinesin/"
  description = "The servers of ${var.prefix}"

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [merge({ Effect = "Allow" }, local.trust[var.oidc_provider_arn == null ? "pod_identity" : "service_account"])]
  })
}

resource "aws_iam_role_policy_attachment" "servers" {
  for_each = module.core.role_policy_arns

  role       = aws_iam_role.servers.name
  policy_arn = each.value
}
