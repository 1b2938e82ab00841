package stages

import (
	"strings"
	"testing"

	"github.com/weighmaster/weighmaster/schemas"
)

func TestAPipelineIsRefusedByItsGraph(t *testing.T) {
	takes := func(name, from string) schemas.StageDecl {
		return schemas.StageDecl{Name: name, Uses: "quantize", Inputs: map[string]string{"model": from}}
	}
	source := schemas.StageDecl{Name: "source", Uses: "acquire"}
	for name, c := range map[string]struct {
		stages []schemas.StageDecl
		words  string
	}{
		"no stages":                    {nil, "it has no stages; there is nothing to run"},
		"two stages of one name":       {[]schemas.StageDecl{source, source}, `two stages are called "source"`},
		"an input that is no stage":    {[]schemas.StageDecl{source, takes("q8", "bf16")}, `stage q8: input model names stage "bf16", which is not an earlier stage`},
		"an input that comes later":    {[]schemas.StageDecl{takes("q8", "source"), source}, "which is not an earlier stage"},
		"a stage that takes itself":    {[]schemas.StageDecl{source, takes("q8", "q8")}, "which is not an earlier stage"},
		"a circle":                     {[]schemas.StageDecl{takes("a", "b"), takes("b", "a")}, `stage a: input model names stage "b"`},
		"no name":                      {[]schemas.StageDecl{{Uses: "acquire"}}, `stages[0].name: got "", want a plain name`},
		"a name that leads out":        {[]schemas.StageDecl{{Name: "..", Uses: "acquire"}}, "want a plain name"},
		"a name with a folder":         {[]schemas.StageDecl{{Name: "a/b", Uses: "acquire"}}, "want a plain name"},
		"a name with a foreign folder": {[]schemas.StageDecl{{Name: `a\b`, Uses: "acquire"}}, "want a plain name"},
		"the lock's name":              {[]schemas.StageDecl{{Name: "lock", Uses: "acquire"}}, "work/lock is this program's own"},
		"a candidate's name":           {[]schemas.StageDecl{{Name: "q8.candidate-1", Uses: "acquire"}}, "this program's own"},
	} {
		if _, err := Order(schemas.Pipeline{Stages: c.stages}); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: got %v, want a refusal with %q", name, err, c.words)
		}
	}
	order, err := Order(schemas.Pipeline{Stages: []schemas.StageDecl{source, takes("q8", "source")}})
	if err != nil || len(order) != 2 || order[1].Name != "q8" {
		t.Errorf("got %v, %v; want the stages as declared", order, err)
	}
}
