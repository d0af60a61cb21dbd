locals {
  # The tables that are scaled: "tasks", or "tasks_dead" for an index of it.
  scaled = !local.provisioned ? {} : merge(
    { for name, table in local.tables : name => { id = "table/${table.name}", kind = "table" } },
    { for name, index in local.tasks_indexes : "tasks_${name}" => { id = "table/${aws_dynamodb_table.tasks[0].name}/index/${name}", kind = "index" } },
  )
  scalings = merge([
    for name, of in local.scaled : {
      for way in ["read", "write"] : "${name}-${way}" => {
        id        = of.id
        dimension = "dynamodb:${of.kind}:${title(way)}CapacityUnits"
        metric    = "DynamoDB${title(way)}CapacityUtilization"
        units     = local.capacity[name][way]
      }
    }
  ]...)
}

resource "aws_appautoscaling_target" "capacity" {
  for_each = local.scalings

  service_namespace  = "dynamodb"
  resource_id        = each.value.id
  scalable_dimension = each.value.dimension
  min_capacity       = each.value.units.min
  max_capacity       = each.value.units.max
  tags               = local.tags
}

resource "aws_appautoscaling_policy" "capacity" {
  for_each = local.scalings

  name               = "${var.prefix}-${each.key}"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.capacity[each.key].service_namespace
  resource_id        = aws_appautoscaling_target.capacity[each.key].resource_id
  scalable_dimension = aws_appautoscaling_target.capacity[each.key].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value = var.capacity_target_percent

    predefined_metric_specification {
      predefined_metric_type = each.value.metric
    }
  }
}
