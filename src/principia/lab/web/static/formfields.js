// Form fields made from JSON schemas, in the form that knobs.js knows.

const LOG_FROM = 50; // a slider whose ends differ by this factor moves in equal ratios

// a value as one would type it after --set
export function text(value) {
  if (Array.isArray(value)) return value.map(text).join(",");
  if (value === null) return "none";
  if (typeof value === "boolean") return value ? "True" : "False";
  return String(value);
}

export function domain(schema) {
  if (schema.enum || schema.type === "boolean") return "";
  if (schema.anyOf) return `${domain(schema.anyOf[0])}, or none`;
  if (schema.type === "array") {
    const count = schema.maxItems ? `1 to ${schema.maxItems} values` : "one or more values";
    return `${count}, each ${domain(schema.items)}`;
  }
  if (schema.type === "string") return "a text";
  const kind = schema.type === "integer" ? "an integer" : "a number";
  const low = schema.minimum ?? schema.exclusiveMinimum, high = schema.maximum ?? schema.exclusiveMaximum;
  if (low === undefined && high === undefined) return kind;
  const left = schema.minimum === undefined ? "(" : "[", right = schema.maximum === undefined ? ")" : "]";
  return `${kind} in ${left}${low ?? "-∞"}, ${high ?? "∞"}${right}`;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function options(schema) {
  if (schema.type === "boolean") return ["False", "True"];
  return schema.enum?.map(text);
}

function slider(label, schema, ends) {
  const [low, high] = ends ?? [schema.minimum, schema.maximum];
  if (low === undefined || high === undefined) return null;
  const made = element("input", { type: "range", min: "0", max: "1000", step: "1", ariaLabel: `${label}, slider` });
  Object.assign(made.dataset, { low, high, step: schema.type === "integer" ? "1" : "any" });
  if (low > 0 && high / low >= LOG_FROM) made.dataset.log = "";
  return made;
}

// one: { name, help, schema, default }; ends: of the slider, where the domain is wider than one wants;
// named: [{ name, label, help }] instead of the words of the schema
export function field(one, { ends, named, owner = "setup", label = one.name.replaceAll("_", " ") } = {}) {
  const id = `${owner}-${one.name}`;
  const inputs = element("div", { className: "inputs" });
  const words = named ?? options(one.schema)?.map((name) => ({ name }));
  let input;
  if (words) {
    input = element("select", { id, name: one.name });
    input.append(...words.map(({ name, label: shown = name }) => element("option", { value: name, textContent: shown })));
  } else {
    const number = ["integer", "number"].includes(one.schema.type);
    const moved = number ? slider(label, one.schema, ends) : null;
    if (moved) inputs.append(moved);
    input = element("input", { id, name: one.name, autocomplete: "off", className: number ? "short" : "long" });
    input.inputMode = number ? "decimal" : "text";
    input.spellcheck = false;
  }
  input.dataset.default = text(one.default);
  input.value = input.dataset.default;
  inputs.append(input);
  // what a slider reaches is seen on it
  const about = element("p", { className: inputs.firstChild === input ? "domain soft" : "hidden", id: `${id}-domain` });
  const explain = () => {
    const chosen = words?.find((word) => word.name === input.value)?.help;
    about.textContent = [domain(one.schema ?? { enum: [] }), chosen ?? one.help].filter(Boolean).join(": ");
  };
  input.setAttribute("aria-describedby", about.id);
  if (words) input.addEventListener("explain", explain);
  explain();
  const made = element("div", { className: "field", title: words ? "" : about.textContent }, element("label", { htmlFor: id, textContent: label }), inputs, about);
  made.dataset.name = one.name;
  return made;
}
