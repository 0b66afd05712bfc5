// The smallest program that shows a picture.
import { connect } from "reactor-trio";

connect("https://host/").attach(document.querySelector("canvas") as HTMLCanvasElement);
