package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	godigest "github.com/opencontainers/go-digest"

	"github.com/weighmaster/weighmaster/kernels/calibration"
	"github.com/weighmaster/weighmaster/kernels/digest"
	"github.com/weighmaster/weighmaster/policy"
	"github.com/weighmaster/weighmaster/schemas"
)

// recheckMatrix tells whether an importance matrix may be used for a model right
// now: the newest calibrate run that made these bytes passed, is not withdrawn and
// was finalized by a passed report over this very model, its text and its binary;
// and matrix, model, text and binary still hash so. The error names the first
// that does not, with got and want.
func recheckMatrix(ctx context.Context, run *Run, matrix, model Artifact) error {
	if err := matrix.Check(ctx); err != nil {
		return fmt.Errorf("importance matrix: %w", err)
	}
	if err := model.Check(ctx); err != nil {
		return fmt.Errorf("model of the importance matrix: %w", err)
	}
	made, err := calibrateRunOf(run, matrix.Digest)
	if err != nil {
		return err
	}
	objects, err := objectsOf(ctx, run, made)
	if err != nil {
		return err
	}
	res, err := made.Result(objects)
	if err != nil {
		return fmt.Errorf("importance matrix: its calibrate run %s: %w", made.External.Stage, err)
	}
	if res.Verdict != schemas.Passed || res.ExitStatus != 0 {
		return fmt.Errorf("importance matrix: its calibrate run %s: got %s with exit status %d, want passed with 0: it is a candidate", made.External.Stage, res.Verdict, res.ExitStatus)
	}
	bound, err := finalizedBy(made, objects, matrix.Digest)
	if err != nil {
		return err
	}
	if got := bound[calibration.RoleModel]; got != model.Digest {
		return fmt.Errorf("importance matrix: it was calibrated with another model: got %s, want %s; calibrate with this one", got, model.Digest)
	}
	return recheckFiles(ctx, run, made, bound)
}

// recheckCalibrated is [recheckMatrix] for a matrix that a calibrate run made. One
// of another origin is judged by its bytes alone; whether it counts, the policy says.
func recheckCalibrated(ctx context.Context, run *Run, matrix, model Artifact) error {
	runs, _ := policy.Runs(run.Claims)
	if !slices.ContainsFunc(runs, func(r *policy.Run) bool { return calibrates(r, matrix.Digest) }) {
		return nil
	}
	return recheckMatrix(ctx, run, matrix, model)
}

// calibrates tells whether a run is a calibration that made the bytes.
func calibrates(r *policy.Run, matrix godigest.Digest) bool {
	return r.Uses == "calibrate" && slices.ContainsFunc(r.Subjects, func(s policy.NamedDigest) bool { return s.Digest == matrix })
}

// calibrateRunOf finds the newest run that made the bytes. One that was withdrawn
// speaks against them whatever was said before.
func calibrateRunOf(run *Run, matrix godigest.Digest) (*policy.Run, error) {
	runs, _ := policy.Runs(run.Claims)
	gone := withdrawnClaims(run.Claims)
	for _, r := range slices.Backward(runs) {
		if !calibrates(r, matrix) {
			continue
		}
		if reason, withdrawn := gone[r.PAE()]; withdrawn {
			return nil, fmt.Errorf("importance matrix %s: its calibrate run %s was withdrawn: %s; calibrate again", matrix, r.External.Stage, reason)
		}
		return r, nil
	}
	return nil, fmt.Errorf("importance matrix %s: got no calibrate run that made it, want one in the ledger: it is a candidate", matrix)
}

// objectsOf reads a run's result and reports.
func objectsOf(ctx context.Context, run *Run, r *policy.Run) (map[godigest.Digest][]byte, error) {
	objects := map[godigest.Digest][]byte{}
	for _, d := range r.Evidence() {
		body, err := run.Objects.Get(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("importance matrix: evidence of its calibrate run: %w", err)
		}
		objects[d] = body
	}
	return objects, nil
}

// finalizedBy gives what the passed report binds the matrix to, by role. The
// report has to be over the matrix itself and over what the run's provenance names.
func finalizedBy(made *policy.Run, objects map[godigest.Digest][]byte, matrix godigest.Digest) (map[string]godigest.Digest, error) {
	reports, err := made.Reports(objects)
	if err != nil {
		return nil, fmt.Errorf("importance matrix: %w", err)
	}
	i := slices.IndexFunc(reports, func(r schemas.Report) bool { return r.Kernel == calibration.Kernel().Name })
	if i < 0 {
		return nil, fmt.Errorf("importance matrix: its calibrate run has no report of the kernel %s: it is a candidate", calibration.Kernel().Name)
	}
	for _, r := range reports {
		if r.Verdict != schemas.Passed {
			return nil, fmt.Errorf("importance matrix: report of %s: got %s, want passed: it is a candidate", r.Kernel, r.Verdict)
		}
	}
	bound, over := map[string]godigest.Digest{}, false
	for _, in := range reports[i].Inputs {
		over = over || in.Digest == matrix
		if before, twice := bound[in.Name]; twice && before != in.Digest {
			return nil, fmt.Errorf("importance matrix: its report names %s twice: got %s and %s, want one", in.Name, before, in.Digest)
		}
		bound[in.Name] = in.Digest
	}
	if !over {
		return nil, fmt.Errorf("importance matrix: the report that finalizes is over other bytes, want it over %s", matrix)
	}
	for role, names := range map[string]string{calibration.RoleCorpus: "corpus/", calibration.RoleBinary: "tool/"} {
		if !slices.ContainsFunc(made.Needs, func(d policy.Dependency) bool {
			return strings.HasPrefix(d.Name, names) && d.Digest == bound[role] && d.Digest != ""
		}) {
			return nil, fmt.Errorf("importance matrix: the report binds the %s %q, which its run does not name", role, bound[role])
		}
	}
	return bound, nil
}

// recheckFiles hashes the text and the binary again. A calibration of another
// machine is held by its digests alone where its files are not here.
func recheckFiles(ctx context.Context, run *Run, made *policy.Run, bound map[string]godigest.Digest) error {
	var with calibrateWith
	if err := json.Unmarshal(made.External.With, &with); err != nil {
		return fmt.Errorf("importance matrix: parameters of its calibrate run: %w", err)
	}
	if with.Tool == "" {
		with.Tool = defaultImatrix
	}
	if !fs.ValidPath(with.Tool) {
		return fmt.Errorf("importance matrix: tool of its calibrate run: got %q, want a path below the build", with.Tool)
	}
	stage := made.External.Inputs["runtime"]
	if !fs.ValidPath(stage) || stage != path.Base(stage) {
		return fmt.Errorf("importance matrix: build of its calibrate run: got %q, want a stage", stage)
	}
	for _, x := range []struct{ role, path string }{
		{calibration.RoleCorpus, below(run.Project, with.Corpus)},
		{calibration.RoleBinary, filepath.Join(run.Project, "work", stage, stage, filepath.FromSlash(with.Tool))},
	} {
		sums, err := digest.File(ctx, x.path)
		if errors.Is(err, fs.ErrNotExist) && made.External.Machine != "" {
			continue
		}
		if err != nil {
			return fmt.Errorf("importance matrix: its %s: %w", x.role, err)
		}
		if sums.SHA256 != bound[x.role] {
			return fmt.Errorf("importance matrix: its %s changed since the calibration: got %s, want %s; restore it or calibrate again", x.role, sums.SHA256, bound[x.role])
		}
	}
	return nil
}
