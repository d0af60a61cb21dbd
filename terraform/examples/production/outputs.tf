output "helm_values" {
  description = "For `helm install -f`."
  value       = module.core.helm_values
}

output "serve_environment" {
  description = "For `kinesin serve`."
  value       = module.core.serve_environment
}

output "lambdas" {
  description = "For module calls of lambdas in other states, as `core`."
  value       = module.core.lambdas
}

output "servers_role_arn" {
  description = "The role of the pods."
  value       = module.roles.role_arns["all"]
}

output "role_policy_arns" {
  description = "Permissions of the IAM roles of the servers."
  value       = module.core.role_policy_arns
}

output "worker_policy_arns" {
  description = "Permissions of consumers of deliver lambdas, by lambda."
  value       = { for name, lambda in module.lambda : name => lambda.worker_policy_arn if lambda.worker_policy_arn != null }
}

output "queues" {
  description = "The queues, by lambda and priority."
  value       = { for name, lambda in module.lambda : name => lambda.queues }
}
