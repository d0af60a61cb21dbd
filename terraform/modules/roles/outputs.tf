output "role_arns" {
  description = "ARNs of the roles, by their keys in `service_accounts`: for `server_principals` of the module `core` and, with an OIDC provider, `service_account_role_arn`."
  value       = { for key, role in aws_iam_role.server : key => role.arn }
}

output "role_names" {
  description = "Names of the roles, for policies of your own."
  value       = { for key, role in aws_iam_role.server : key => role.name }
}

output "pod_identity_association_ids" {
  description = "Ids of the associations of EKS Pod Identity, by role and service account; empty without `cluster_name`."
  value       = { for key, association in aws_eks_pod_identity_association.server : key => association.association_id }
}
