package main

import (
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

// Every choice of tools, device and rent gives documents that are refused until
// they are filled in, with the line of each value, and valid ones afterwards.
func TestTemplatesOfToolsAreFilledIn(t *testing.T) {
	replace := strings.NewReplacer("@REPOSITORY@", "example/model", "@REVISION@", strings.Repeat("0a", 20), "@NAME@", "model")
	values := strings.NewReplacer(
		"EDIT(the full commit of llama.cpp, 40 hex digits)", strings.Repeat("0b", 20),
	)
	for _, opt := range []initOptions{
		{Tools: llamaCpp, Device: "CPU"}, {Tools: llamaCpp, Device: "CUDA0,CUDA1"}, {Tools: llamaCpp, Device: "CPU", Rented: "azure"}, {Tools: ownTools, Device: "CPU"},
	} {
		t.Run(opt.Tools+" "+opt.Device+" "+opt.Rented, func(t *testing.T) {
			documents, err := opt.documents(replace)
			if err != nil {
				t.Fatal(err)
			}
			pipeline, policyText := documents[pipelineFile], documents[policyFile]
			for name, text := range map[string]string{"pipeline.yaml": pipeline, "policy.yaml": policyText} {
				err := unedited("project/"+name, []byte(text))
				if opt.Tools == ownTools {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), "\n  "+name+":") || !strings.Contains(err.Error(), "fill in the full commit of llama.cpp") {
					t.Errorf("%s: an unedited document is taken, or its lines are not told: %v", name, err)
				}
				if strings.Contains(text, "@COMMIT") || strings.Contains(text, "@RE") || strings.Contains(text, "@DEV") || strings.Contains(text, "#cpu:") || strings.Contains(text, "#gpu:") || strings.Contains(text, "#rented:") {
					t.Errorf("%s holds what belongs to the template", name)
				}
			}
			p, err := policy.Read("policy.yaml", []byte(values.Replace(policyText)))
			if err != nil {
				t.Fatal(err)
			}
			if p.Built != nil && (p.Built.Sources[0].Patches[0] != godigest.FromString(documents["patches/tokenizer.patch"]) || p.Calibrated.Corpora[0].Digest != godigest.FromString(documents["calibration/corpus.txt"])) {
				t.Error("the policy allows another patch or text than the project's")
			}
			if rented := p.Released != nil; rented != (opt.Rented != "") {
				t.Errorf("a release is demanded: %v", rented)
			}
			var line schemas.Pipeline
			text := editMark.ReplaceAllString(values.Replace(pipeline), "filled-in")
			if err := schemas.DecodeYAML("pipeline.yaml", []byte(text), schemas.PipelineURI, &line); err != nil {
				t.Fatal(err)
			}
			if _, err := stages.Order(line); err != nil {
				t.Fatal(err)
			}
			for _, s := range line.Stages {
				if err := schemas.StageParameters(s.Uses, s.With); err != nil {
					t.Errorf("stage %s: %v", s.Name, err)
				}
				if _, may := p.Signers[s.Uses]; !may {
					t.Errorf("stage %s: nobody may sign %s", s.Name, s.Uses)
				}
			}
		})
	}
	for _, bad := range []initOptions{{Tools: "vllm", Device: "CPU"}, {Tools: llamaCpp, Device: "the GPU"}, {Tools: llamaCpp, Device: "CPU", Rented: "elsewhere"}, {Tools: ownTools, Device: "CUDA0"}, {Tools: ownTools, Device: "CPU", Rented: "azure"}} {
		if _, err := bad.documents(replace); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
