// Package rules tests the alerts and dashboards in deploy: whatever they name exists.
package rules
