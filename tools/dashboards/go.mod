// Makes the Grafana dashboards in deploy/grafana. A module of its own, so that what it needs never reaches
// the go.mod of the project.
module github.com/kinesin-io/kinesin/tools/dashboards

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
