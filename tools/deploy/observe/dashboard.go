package main

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// query is one line of a panel.
type query struct{ legend, expr string }

// panel is one diagram. A panel with a limit shows the present number, red from the limit on.
type panel struct {
	title, about, unit string
	limit              float64
	queries            []query
}

type row struct {
	title  string
	panels []panel
}

func dashboardFile() ([]byte, error) {
	d := dashboard.NewDashboardBuilder("Fencepost").Uid("fencepost").
		Description("Transactions, accounts, leases and chains of a Fencepost cluster.").
		Tags([]string{"fencepost"}).Time("now-3h", "now").Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").
			Type("prometheus")).
		Link(dashboard.NewDashboardLinkBuilder("Runbooks").Type(
			dashboard.DashboardLinkTypeLink).Url(runbookPage))
	for _, r := range rows() {
		d = d.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			d = d.WithPanel(p.build())
		}
	}
	built, err := d.Build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

func (p panel) build() cog.Builder[dashboard.Panel] {
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}
	if p.limit > 0 {
		b := stat.NewPanelBuilder().Title(p.title).Description(p.about).Unit(p.unit).
			Datasource(source).Height(4).Span(4).
			ColorMode(common.BigValueColorModeBackground).
			Thresholds(dashboard.NewThresholdsConfigBuilder().
				Mode(dashboard.ThresholdsModeAbsolute).
				Steps([]dashboard.Threshold{
					{Color: "green"}, {Color: "red", Value: cog.ToPtr(p.limit)},
				}))
		for i, q := range p.queries {
			b = b.WithTarget(q.build(i))
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.about).Unit(p.unit).
		Datasource(source).Height(8).Span(8).Min(0)
	for i, q := range p.queries {
		b = b.WithTarget(q.build(i))
	}
	return b
}

func (q query) build(i int) cog.Builder[variants.Dataquery] {
	return prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).
		RefId(string(rune('A' + i)))
}

func quantiles(metric string) []query {
	of := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + metric +
			"_bucket[$__rate_interval])))"
	}
	return []query{{"median", of("0.5")}, {"99%", of("0.99")}}
}

func rates(metric, label string) []query {
	return []query{
		{"{{" + label + "}}", "sum by (" + label + ") (rate(" + metric + "[$__rate_interval]))"},
	}
}
