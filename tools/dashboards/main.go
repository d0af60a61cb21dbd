// Command dashboards writes the Grafana dashboards of Kinesin into a folder: make dashboards. With -check it
// only compares.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// plot is a panel with queries by their legends.
type plot struct {
	title, description, unit string
	queries                  [][2]string // legend, expression
}

// page is a dashboard with rows of plots.
type page struct {
	file, title string
	byLambda    bool // it has the variable lambda
	rows        []row
}

type row struct {
	title string
	plots []plot
}

func main() {
	dir, check := flag.String("dir", "../../deploy/grafana", "folder of the dashboards"), flag.Bool("check", false, "only compare")
	flag.Parse()
	for _, p := range pages() {
		if err := p.write(*dir, *check); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (p page) write(dir string, check bool) error {
	built, err := p.build().Build()
	if err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	text, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", p.file, err)
	}
	text, path := append(text, '\n'), filepath.Join(dir, p.file)
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	if there, err := os.ReadFile(path); err != nil || !bytes.Equal(there, text) {
		return fmt.Errorf("%s is not what tools/dashboards makes: make dashboards (%v)", path, err)
	}
	return nil
}

var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${source}")}

func (p page) build() *dashboard.DashboardBuilder {
	b := dashboard.NewDashboardBuilder(p.title).Uid(p.file[:len(p.file)-len(".json")]).Tags([]string{"kinesin"}).
		Refresh("30s").Time("now-3h", "now").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("source").Label("Prometheus").Type("prometheus"))
	if p.byLambda {
		b = b.WithVariable(dashboard.NewQueryVariableBuilder("lambda").Label("lambda").Datasource(source).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(kinesin_tasks_accepted_total, lambda)")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*"))
	}
	for _, r := range p.rows {
		b = b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, of := range r.plots {
			b = b.WithPanel(of.panel())
		}
	}
	return b
}

func (of plot) panel() *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().Title(of.title).Description(of.description).Unit(of.unit).Datasource(source).Height(8).Span(12)
	for i, q := range of.queries {
		b = b.WithTarget(prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).LegendFormat(q[0]).Expr(q[1]).Range().
			Exemplar(of.title == "Lateness"))
	}
	return b
}
