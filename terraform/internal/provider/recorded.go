package main

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// kinds are all resource types that are served.
func kinds() []kind {
	return append([]kind{table(), tableItem(), queue()}, append(queueDocuments(),
		iamPolicy(), iamRole(), iamAttachment(), podIdentity(), metricAlarm(), scalingTarget(), scalingPolicy(), snsTopic(), dashboard(),
	)...)
}

func iamPolicy() kind {
	return kind{
		name: "aws_iam_policy",
		schema: schema.Schema{Attributes: with(attributes{
			"name": namedText, "name_prefix": namedText, "path": textDefault("/"), "description": bindingText, "policy": requiredText,
			"policy_id": computedText, "attachment_count": computedNumber,
		}, named, tags)},
		identify: func(s *session, v values) {
			v["arn"] = s.arn("iam", "policy"+v.text("path")+v.text("name"))
			v["id"], v["policy_id"], v["attachment_count"] = v["arn"], "ANPA"+v.text("name"), 0
		},
	}
}

func iamRole() kind {
	return kind{
		name: "aws_iam_role",
		schema: schema.Schema{Attributes: with(attributes{
			"name": namedText, "name_prefix": namedText, "path": textDefault("/"), "description": optionalText,
			"assume_role_policy": requiredText, "max_session_duration": numberDefault(3600), "permissions_boundary": optionalText,
			"force_detach_policies": flagDefault(false), "unique_id": computedText, "create_date": computedText,
		}, named, tags)},
		identify: func(s *session, v values) {
			v["arn"] = s.arn("iam", "role"+v.text("path")+v.text("name"))
			v["id"], v["unique_id"], v["create_date"] = v["name"], "AROA"+v.text("name"), "2026-01-01T00:00:00Z"
		},
	}
}

func iamAttachment() kind {
	return kind{
		name:     "aws_iam_role_policy_attachment",
		schema:   schema.Schema{Attributes: with(attributes{"role": namingText, "policy_arn": namingText})},
		identify: func(_ *session, v values) { v["id"] = v.text("role") + "-" + v.text("policy_arn") },
	}
}

func podIdentity() kind {
	return kind{
		name: "aws_eks_pod_identity_association",
		schema: schema.Schema{Attributes: with(attributes{
			"cluster_name": namingText, "namespace": namingText, "service_account": namingText, "role_arn": requiredText,
			"association_arn": computedText, "association_id": computedText,
			"tags_all": schema.MapAttribute{Computed: true, ElementType: types.StringType}, // of this type alone it may not be set
		}, regional, tags)},
		identify: func(s *session, v values) {
			v["id"] = "a-" + v.text("cluster_name") + "-" + v.text("namespace") + "-" + v.text("service_account")
			v["association_id"], v["association_arn"] = v["id"], s.arn("eks", "podidentityassociation/"+v.text("cluster_name")+"/"+v.text("id"))
		},
	}
}

func metricAlarm() kind {
	metric := attributes{
		"metric_name": requiredText, "namespace": optionalText, "period": requiredNumber, "stat": requiredText, "unit": optionalText,
		"dimensions": tagged,
	}
	return kind{
		name:   "aws_cloudwatch_metric_alarm",
		adopts: true,
		schema: schema.Schema{
			Attributes: with(attributes{
				"alarm_name": namingText, "alarm_description": optionalText, "comparison_operator": requiredText,
				"evaluation_periods": requiredNumber, "datapoints_to_alarm": optionalNumber, "threshold": optionalFloat,
				"metric_name": optionalText, "namespace": optionalText, "period": optionalNumber, "statistic": optionalText,
				"extended_statistic": optionalText, "dimensions": tagged, "unit": optionalText,
				"treat_missing_data": textDefault("missing"), "actions_enabled": flagDefault(true),
				"alarm_actions": optionalTexts, "ok_actions": optionalTexts, "insufficient_data_actions": optionalTexts,
			}, regional, named, tags),
			Blocks: blocks{"metric_query": setBlock(attributes{
				"id": requiredText, "expression": optionalText, "label": optionalText, "period": optionalNumber,
				"return_data": optionalFlag, "account_id": optionalText,
			}, blocks{"metric": listBlock(metric, nil)})},
		},
		identify: func(s *session, v values) {
			v["id"], v["arn"] = v["alarm_name"], s.arn("cloudwatch", "alarm:"+v.text("alarm_name"))
		},
	}
}

func dashboard() kind {
	return kind{
		name:   "aws_cloudwatch_dashboard",
		adopts: true,
		schema: schema.Schema{Attributes: with(attributes{
			"dashboard_name": namingText, "dashboard_body": requiredText, "dashboard_arn": computedText,
		}, regional)},
		identify: func(s *session, v values) {
			v["id"], v["dashboard_arn"] = v["dashboard_name"], s.arn("cloudwatch", "dashboard/"+v.text("dashboard_name"))
		},
	}
}

func scalingTarget() kind {
	return kind{
		name:   "aws_appautoscaling_target",
		adopts: true,
		schema: schema.Schema{Attributes: with(attributes{
			"min_capacity": requiredNumber, "max_capacity": requiredNumber, "resource_id": namingText, "scalable_dimension": namingText,
			"service_namespace": namingText, "role_arn": namedText,
		}, regional, named, tags)},
		identify: func(s *session, v values) {
			v["id"] = v.text("resource_id") + "/" + v.text("scalable_dimension") // the real id leaves out the dimension
			v["role_arn"] = s.arn("iam", "role/aws-service-role/dynamodb.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_DynamoDBTable")
			v["arn"] = s.arn("application-autoscaling", "scalable-target/"+v.text("id"))
		},
	}
}

func scalingPolicy() kind {
	return kind{
		name: "aws_appautoscaling_policy",
		schema: schema.Schema{
			Attributes: with(attributes{
				"name": namingText, "policy_type": textDefault("StepScaling"), "resource_id": namingText, "scalable_dimension": namingText,
				"service_namespace": namingText, "alarm_arns": computedList,
			}, regional, named),
			Blocks: blocks{"target_tracking_scaling_policy_configuration": listBlock(attributes{
				"target_value": schema.Float64Attribute{Required: true}, "disable_scale_in": optionalFlag,
				"scale_in_cooldown": optionalNumber, "scale_out_cooldown": optionalNumber,
			}, blocks{"predefined_metric_specification": listBlock(attributes{
				"predefined_metric_type": requiredText, "resource_label": optionalText,
			}, nil)})},
		},
		identify: func(s *session, v values) {
			v["id"], v["arn"] = v["name"], s.arn("autoscaling", "scalingPolicy:"+v.text("name"))
			v["alarm_arns"] = []any{}
		},
	}
}

func snsTopic() kind {
	return kind{
		name: "aws_sns_topic",
		schema: schema.Schema{Attributes: with(attributes{
			"name": namedText, "display_name": optionalText, "kms_master_key_id": optionalText, "policy": eitherText, "owner": computedText,
		}, regional, named, tags)},
		identify: func(s *session, v values) {
			v["arn"], v["owner"] = s.arn("sns", v.text("name")), accountID
			v["id"] = v["arn"]
		},
	}
}
