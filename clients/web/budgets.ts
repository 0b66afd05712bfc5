/** How large the built files may become, and which module is to blame when one has become larger. Sizes are in bytes. */

/** Sizes of the modules that a file is made of, after minifying, by path; by the name of the file. */
export type ModuleSizes = Record<string, Record<string, number>>;

/** What budgets.json says. */
export interface Budgets {
  /** The most that each built file may take in gzip. */
  files: Record<string, number>;
  /** The files that a browser loads until the first picture, and the most that they may take in gzip together. */
  firstLoad: { files: string[]; gzip: number };
  /** What a program with the npm package may load, by its name in test/programs, and its modules' sizes when that was set. */
  programs: Record<string, { gzip: number; modules: Record<string, number> }>;
  /** The modules' sizes when the budgets were set, to compare with. */
  modules: ModuleSizes;
}

const NAMED = 3; // modules that a message names

/** A message for each budget that is exceeded, and for each file that has none or is no more. `gzip` has each file's size. */
export function exceeded(budgets: Budgets, gzip: Record<string, number>, modules: ModuleSizes): string[] {
  const found: string[] = [];
  for (const name of Object.keys(gzip)) if (!(name in budgets.files)) found.push(`${name} has no budget in budgets.json.`);
  for (const [name, most] of Object.entries(budgets.files)) {
    const size = gzip[name];
    if (size === undefined) found.push(`budgets.json has a budget for ${name}, which is not built.`);
    else if (size > most) found.push(excess(name, size, most, [name], budgets.modules, modules));
  }
  const { files, gzip: most } = budgets.firstLoad;
  const size = files.reduce((sum, name) => sum + (gzip[name] ?? 0), 0);
  if (size > most) found.push(excess("The first load", size, most, files, budgets.modules, modules));
  return found;
}

/** The same for programs with the package. `gzip` has what each loads. */
export function exceededByPrograms({ programs }: Pick<Budgets, "programs">, gzip: Record<string, number>, modules: ModuleSizes): string[] {
  return Object.entries(gzip).flatMap(([name, size]) => {
    const budget = programs[name];
    if (budget === undefined) return [`test/programs/${name}.ts has no budget in budgets.json.`];
    if (size <= budget.gzip) return [];
    return [excess(`test/programs/${name}.ts`, size, budget.gzip, [name], { [name]: budget.modules }, modules)];
  });
}

function excess(what: string, size: number, most: number, files: string[], before: ModuleSizes, now: ModuleSizes): string {
  return `${what} takes ${size} B in gzip, its budget is ${most} B. ${blame(files, before, now)}`;
}

/** The modules of these files that have grown most, largest growth first. */
function blame(files: string[], before: ModuleSizes, now: ModuleSizes): string {
  const growth = new Map<string, number>();
  for (const file of files) {
    for (const [module, size] of Object.entries(now[file] ?? {})) {
      growth.set(module, (growth.get(module) ?? 0) + size - (before[file]?.[module] ?? 0));
    }
  }
  const grown = [...growth].filter(([, by]) => by > 0).sort(([, a], [, b]) => b - a);
  if (grown.length === 0) return "No module has grown since the budgets were set.";
  const named = grown.slice(0, NAMED).map(([module, by]) => `${module} by ${by} B`);
  return `Since the budgets were set these modules have grown, before gzip: ${named.join(", ")}${grown.length > NAMED ? ", and others" : ""}.`;
}
