import { createRoot } from "react-dom/client";
import { createHooks } from "reactor-trio/react";
import { gradient } from "./gradient";

const { ReactorProvider, Picture, useReactorState, useSetting } = createHooks(gradient);

function Brightness() {
  const { status } = useReactorState();
  const { value = 1, set } = useSetting("brightness");
  const slider = <input type="range" min={0} max={2} step={0.01} value={value} onChange={({ target }) => set(target.valueAsNumber)} />;
  return <label>{slider} {status}</label>;
}

createRoot(document.getElementById("root")!).render(
  <ReactorProvider url="http://localhost:8080/"><Picture style={{ width: 640, aspectRatio: 4 / 3 }} /><Brightness /></ReactorProvider>,
);
