output "helm_values" {
  description = "For `helm install -f`."
  value       = module.core.helm_values
}

output "serve_environment" {
  description = "For `kinesin serve`."
  value       = module.core.serve_environment
}
