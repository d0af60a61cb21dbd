package main

import "strings"

// of is the selector of the chosen lambdas.
const of = `lambda=~"$lambda"`

func one(legend, expression string) [][2]string { return [][2]string{{legend, expression}} }

// quantiles are three of a histogram, by a label if it is not empty.
func quantiles(histogram, selector, by string) (all [][2]string) {
	legend, group := "", "le"
	if by != "" {
		legend, group = " {{"+by+"}}", "le, "+by
	}
	for _, q := range []string{"0.5", "0.95", "0.99"} {
		all = append(all, [2]string{
			"p" + strings.TrimPrefix(q, "0.") + legend,
			"histogram_quantile(" + q + ", sum by (" + group + ") (rate(" + histogram + "_bucket{" + selector + "}[$__rate_interval])))",
		})
	}
	return all
}

func pages() []page {
	return []page{
		{file: "kinesin-overview.json", title: "Kinesin: overview", byLambda: true, rows: []row{
			{"Is it late?", []plot{
				{"Lateness", "From the due time to the start, or the delivery.", "s", quantiles("kinesin_task_lateness_seconds", `stage=~"started|delivered", `+of, "")},
				{"Oldest waiting", "How long ago the oldest task was due that has yet to be dispatched.", "s", one("{{lambda}}", "max by (lambda) (kinesin_oldest_waiting_seconds{"+of+"})")},
				{"Schedule lag", "Of each server.", "s", one("{{instance}}", "kinesin_schedule_lag_seconds")},
				{"Budget left", "Share of the budget of each objective; below 0: more was late than may be.", "percentunit", one("{{lambda}}", "max by (lambda) (kinesin_objective_budget_left{"+of+"})")},
			}},
			{"What happens, and what is coming", []plot{
				{"Accepted and ended", "Tasks accepted, and attempts ended by outcome.", "ops", [][2]string{
					{"accepted", "sum(rate(kinesin_tasks_accepted_total{" + of + "}[$__rate_interval]))"},
					{"{{outcome}}", "sum by (outcome) (rate(kinesin_attempts_total{" + of + "}[$__rate_interval]))"},
				}},
				{"Due soon", "Overdue, or due within the horizon.", "short", one("{{lambda}} {{horizon}}", "sum by (lambda, horizon) (kinesin_due_tasks{"+of+"})")},
				{"Held back", "By what.", "short", one("{{lambda}} {{reason}}", "sum by (lambda, reason) (kinesin_held_tasks{"+of+"}) > 0")},
				{"Queues", "Messages that are visible.", "short", one("{{lambda}} {{priority}}", `sum by (lambda, priority) (kinesin_queue_messages{state="visible", `+of+`})`)},
			}},
			{"Is it well?", []plot{
				{"Schedule calls", "Availability is 1 - failed / all.", "ops", one("{{outcome}}", "sum by (outcome) (rate(kinesin_schedule_calls_total[$__rate_interval]))")},
				{"Outages", "For how long a service has not answered.", "s", one("{{service}}", "max by (service) (kinesin_outage_seconds)")},
				{"Workers", "Connected to all servers.", "short", one("workers", "sum(kinesin_workers)")},
				{"Failures", "Of servers.", "ops", [][2]string{
					{"store {{op}}", "sum by (op) (rate(kinesin_store_errors_total[$__rate_interval]))"},
					{"{{what}}", "sum by (what) (rate(kinesin_hsc_failures_total[$__rate_interval]))"},
					{"workers lost", "sum(rate(kinesin_workers_lost_total[$__rate_interval]))"},
				}},
			}},
		}},
		{file: "kinesin-lambda.json", title: "Kinesin: a lambda", byLambda: true, rows: []row{
			{"Lateness", []plot{
				{"Lateness", "By lambda.", "s", quantiles("kinesin_task_lateness_seconds", `stage=~"started|delivered", `+of, "lambda")},
				{"Lateness by stage", "99th percentile.", "s", one("{{stage}}", "histogram_quantile(0.99, sum by (le, stage) (rate(kinesin_task_lateness_seconds_bucket{"+of+"}[$__rate_interval])))")},
				{"Burn", "How fast the budget is used up; 1 uses it up in one window.", "short", one("{{lambda}} {{over}}", "max by (lambda, over) (kinesin_objective_burn{"+of+"})")},
				{"Starts of objectives", "In time, or not.", "ops", one("in time: {{in_time}}", "sum by (in_time) (rate(kinesin_objective_starts_total{"+of+"}[$__rate_interval]))")},
			}},
			{"Tasks", []plot{
				{"Tasks by state", "Of a store that counts them.", "short", one("{{state}}", "sum by (state) (kinesin_tasks{"+of+"})")},
				{"Attempts by outcome", "", "ops", one("{{lambda}} {{outcome}}", "sum by (lambda, outcome) (rate(kinesin_attempts_total{"+of+"}[$__rate_interval]))")},
				{"Expired", "", "ops", one("{{lambda}}", "sum by (lambda) (rate(kinesin_tasks_expired_total{"+of+"}[$__rate_interval]))")},
				{"Deliveries that fail", "", "ops", one("{{lambda}}", "sum by (lambda) (rate(kinesin_deliveries_failed_total{"+of+"}[$__rate_interval]))")},
			}},
		}},
		{file: "kinesin-servers.json", title: "Kinesin: servers and store", rows: []row{
			{"Servers", []plot{
				{"Partitions", "Owned by each server.", "short", one("{{instance}}", "kinesin_partitions_owned")},
				{"Partitions without an owner", "", "short", one("{{instance}}", "kinesin_partitions_unowned")},
				{"Tasks in flight", "In the memory of each server.", "short", one("{{instance}}", "kinesin_inflight_tasks")},
				{"Versions", "", "short", one("{{version}}", "count by (version) (kinesin_build_info)")},
				{"Connections", "", "short", [][2]string{{"{{instance}}", "kinesin_connections"}, {"at most {{instance}}", "kinesin_connections_max"}}},
				{"Members", "As each server sees them.", "short", one("{{instance}}", "kinesin_fleet_members")},
			}},
			{"Store and queues", []plot{
				{"Store operations", "99th percentile.", "s", one("{{op}}", "histogram_quantile(0.99, sum by (le, op) (rate(kinesin_store_seconds_bucket[$__rate_interval])))")},
				{"Syncs", "Of the embedded store.", "s", quantiles("kinesin_store_fsync_seconds", "", "")},
				{"Requests to AWS", "", "ops", one("{{service}} {{outcome}}", "sum by (service, outcome) (rate(kinesin_aws_request_seconds_count[$__rate_interval]))")},
				{"Throttled by DynamoDB", "", "ops", one("{{table}}", "sum by (table) (rate(kinesin_dynamodb_throttled_total[$__rate_interval]))")},
				{"Inbound buffer", "Messages.", "short", one("{{state}}", "max by (state) (kinesin_inbound_messages)")},
				{"Age in the inbound buffer", "", "s", quantiles("kinesin_inbound_age_seconds", "", "")},
			}},
		}},
	}
}
